"""Marks by which components inform one another about claims: finalizers and annotations, with upstream's names."""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer of a claim, present as long as a pod that was promised its devices may still start."""
SEMANTIC_FINALIZER = "semantic.dra.k8s.io/delete-protection"
"""The same for claims with semantic parameters, which v1 only carries."""
FINALIZERS = frozenset((FINALIZER, SEMANTIC_FINALIZER))

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim made from a template: the entry in the owner's ``resourceClaims`` that it was made for."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation with the value ``"true"`` on claims that the scheduler makes for a pod's extended resources."""
STANDS_IN_FOR = "allotment.dev/stands-in-for"
"""Annotation of a claim that keeps the devices of another claim, which was removed while pods were using them.

The value names the removed claim."""
