"""The v1alpha2 kinds, on the KEP's own two cards with its slips corrected."""

import pytest

from allotment.api import semantic
from allotment.api.codec import DecodeError, decode, encode, to_builtins, unknown_fields
from allotment.api.manifests.manifest import read_manifest
from allotment.api.quantity import Quantity

CARDS = """
kind: NodeResourceSlice
apiVersion: resource.k8s.io/v1alpha2
metadata:
  name: worker-1-cards
spec:
  nodeName: worker-1
  driverName: cards.dra.example.com
  partitionable:
    commonAttributes:
    - name: drivers
      attributes:
      - name: runtimeVersion
        version: 12.1.0
    - name: a4-gpu
      attributes:
      - name: memory
        quantity: 32Gi
    - name: a4-quarter
      attributes:
      - name: memory
        quantity: 8Gi
    resourceInstances:
    - name: gpu-0
      commonAttributesRefs: [drivers]
      attributes:
      - name: UUID
        string: GPU-ceea231c-4257-7af7-6726-efcb8fc2ace9
    - name: partitionable-gpu-1
      commonAttributesRefs: [drivers, a4-gpu]
      partitions:
      - name: full-gpu
        resourceInstances:
        - name: gpu-1
      - name: half-and-quarters
        resourceInstances:
        - name: partitionable-second-half
          partitions:
          - name: quarters
            commonAttributesRefs: [a4-quarter]
            attributes:
            - name: lanes
              intSlice: [1, 2]
            resourceInstances:
            - name: quarter-0
            - name: quarter-1
"""

PARAMETERS = """
kind: ResourceClaimParameters
apiVersion: resource.k8s.io/v1alpha2
metadata:
  name: some-arbitrary-name
  namespace: user-namespace
generatedFrom:
  name: my-parameters
  kind: CardParameters
  apiGroup: dra.example.com
  uid: foobar-uid
vendorParameters:
  kind: CardParameters
  apiVersion: dra.example.com/v1alpha1
  spec: {count: 2, minimumRuntimeVersion: v12.0.0, sharing: {strategy: TimeSliced, weights: [1, null, 2.5]}}
shareable: true
requests:
- driverName: cards.dra.example.com
  partitionable:
    required:
    - name: selected-gpu-0
      selector: |-
        versions["runtimeVersion"] >= "v12.0.0" && quantities["memory"] >= "8Gi"
---
kind: ResourceClassParameters
apiVersion: resource.k8s.io/v1alpha2
metadata:
  name: some-arbitrary-name
generatedFrom: {name: gpu-parameters, kind: CardClassParameters, apiGroup: dra.example.com, uid: foobar-uid}
vendorParameters: {anything: [goes]}
filters:
- driverName: cards.dra.example.com
  partitionable:
    selector: quantities["memory"] <= "16Gi"
---
kind: ResourceClass
apiVersion: resource.k8s.io/v1alpha2
metadata: {name: cards}
driverName: cards.dra.example.com
parametersRef: {apiGroup: dra.example.com, kind: CardClassParameters, name: gpu-parameters}
suitableNodes: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}
semanticParameters: true
---
kind: ResourceClaim
apiVersion: resource.k8s.io/v1alpha2
metadata: {name: cards, namespace: user-namespace}
spec:
  resourceClassName: cards
  parametersRef: {apiGroup: dra.example.com, kind: CardParameters, name: my-parameters}
  allocationMode: Immediate
status:
  driverName: cards.dra.example.com
  allocation:
    resourceHandles:
    - driverName: cards.dra.example.com
      semanticData:
        vendorClassParameters: {anything: [goes]}
        vendorClaimParameters: {kind: CardParameters}
        nodeName: worker-1
        partitionable:
          instances:
          - id: gpu-0
          - id: partitionable-gpu-1/full-gpu/gpu-1
    - driverName: other.example.com
      data: opaque
    availableOnNodes: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [worker-1]}]}]}
    shareable: true
  reservedFor:
  - {resource: pods, name: pod, uid: "1"}
---
kind: ResourceClaimTemplate
apiVersion: resource.k8s.io/v1alpha2
metadata: {name: cards, namespace: user-namespace}
spec:
  metadata: {labels: {a: b}}
  spec: {resourceClassName: cards}
"""


@pytest.mark.parametrize("text", [CARDS, PARAMETERS], ids=["slice", "the others"])
def test_the_keps_examples_survive_the_round_trip(text: str) -> None:
    for located in read_manifest(text, "kep.yaml"):
        assert located.obj is not None
        assert located.unknown_fields() == []
        assert to_builtins(located.obj) == located.raw
        assert decode(type(located.obj), encode(located.obj)) == located.obj


def test_the_tree_of_instances_is_typed_all_the_way_down() -> None:
    (located,) = read_manifest(CARDS, "kep.yaml")
    assert isinstance(located.obj, semantic.NodeResourceSlice)
    model = located.obj.spec.partitionable
    assert model is not None
    assert model.common_attributes[1].attributes[0].quantity_value == Quantity.parse("32Gi")
    quarters = model.resource_instances[1].partitions[1].resource_instances[0].partitions[0]
    assert quarters.common_attributes_refs == ("a4-quarter",)
    assert quarters.attributes[0].int_slice_value == (1, 2)
    assert [instance.name for instance in quarters.resource_instances] == ["quarter-0", "quarter-1"]


def test_allocated_instances_may_be_bare_strings_as_in_the_keps_example() -> None:
    handle = decode(
        semantic.SemanticResourceHandle,
        {"nodeName": "worker-1", "partitionable": {"instances": ["gpu-0", {"id": "gpu-1"}]}},
    )
    assert handle.partitionable is not None
    assert [instance.id for instance in handle.partitionable.instances] == ["gpu-0", "gpu-1"]
    assert to_builtins(handle)["partitionable"] == {"instances": [{"id": "gpu-0"}, {"id": "gpu-1"}]}


def test_a_bare_string_elsewhere_is_still_wrong() -> None:
    with pytest.raises(DecodeError, match=r"^requests\[0\]: must be an object with fields"):
        decode(semantic.ResourceClaimParameters, {"requests": ["gpu-0"]})


@pytest.mark.parametrize(
    ("field", "guess"),
    [("comonAttributesRefs", "commonAttributesRefs"), ("Partitions", "partitions")],
)
def test_the_keps_typos_are_reported_not_guessed_at(field: str, guess: str) -> None:
    assert unknown_fields(semantic.ResourceInstance, {field: []}) == [f"{field} (did you mean {guess}?)"]


def test_a_model_that_we_do_not_know_reads_as_none() -> None:
    spec = decode(semantic.NodeResourceSliceSpec, {"nodeName": "a", "counters": {}})
    assert spec.partitionable is None
    assert unknown_fields(semantic.NodeResourceSliceSpec, {"counters": {}}) == ["counters"]
