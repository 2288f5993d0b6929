"""Configuration files: what they come to, and what is said about mistakes."""

from textwrap import dedent

import pytest

from allotment.api.manifests.document import read_documents
from allotment.scheduler.config.configuration import PLUGINS, SCORES
from allotment.scheduler.config.profile import Profile
from allotment.scheduler.config.profile_file import DEFAULT, Configuration, ConfigurationError, load
from allotment.scheduler.config.profile_file import __doc__ as documentation
from allotment.scheduler.framework import Filter, Plugin, Score
from allotment.scheduler.queue import QueueBackoff
from tests.checkout import CHECKOUT


def own(body: str = "") -> Configuration:
    return load("apiVersion: allotment.dev/v1\nkind: SchedulerConfiguration\n" + dedent(body), "s.yaml")


def kubernetes(body: str = "") -> Configuration:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return load(head + dedent(body), "k.yaml")


def only(configuration: Configuration) -> Profile:
    (profile,) = configuration.rosters().values()
    return profile


def names(profile: Profile) -> set[str]:
    return {plugin.name for plugin in profile.plugins}


# --- the default ---


def test_the_default_profile_has_every_plugin_that_has_weight() -> None:
    profile = DEFAULT.rosters()["default-scheduler"]
    assert names(profile) == set(PLUGINS) - {"MostAllocated"}
    assert profile.weights == SCORES


def test_plugins_are_what_their_names_say() -> None:
    for name, make in PLUGINS.items():
        plugin = make(DEFAULT.profiles[0], DEFAULT)
        assert plugin.name == name
        assert isinstance(plugin, Plugin)
        assert isinstance(plugin, Score) == (name in SCORES)


def test_only_rules_about_other_nodes_are_not_local() -> None:
    plugins = (make(DEFAULT.profiles[0], DEFAULT) for make in PLUGINS.values())
    elsewhere = {each.name for each in plugins if isinstance(each, Filter | Score) and not each.local}
    volumes = {
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
        "NodeVolumeLimits",
    }  # each pod has its own
    assert elsewhere == {"NodeName", "PodTopologySpread", "InterPodAffinity", *volumes}


def test_each_configuration_has_plugins_of_its_own() -> None:
    first, second = only(DEFAULT), only(DEFAULT)
    assert not {id(each) for each in first.plugins} & {id(each) for each in second.plugins}


def test_an_empty_file_is_the_default() -> None:
    assert own() == DEFAULT


def test_the_documented_example_is_read() -> None:
    assert documentation is not None
    example = documentation.split("\n\n")[1]
    configuration = load(dedent(example))
    assert (configuration.backoff, configuration.binding_seconds, configuration.gangs) == (
        QueueBackoff(),
        600,
        True,
    )
    assert names(only(configuration)) == set(PLUGINS) - {"InterPodAffinity", "LeastAllocated"}
    assert len(read_documents(dedent(example))) == 1


# --- our own format ---


def test_profiles_have_their_plugins_weights_and_strategies() -> None:
    configuration = own(
        """
        profiles:
        - schedulerName: default-scheduler
        - schedulerName: packed
          plugins: {disabled: [TaintToleration, BalancedAllocation]}
          scores: {MostAllocated: 5, LeastAllocated: 0, NodeAffinity: 7}
          resources: {cpu: 2, example.com/gpu: 1}
          deviceStrategy: first-fit
        """
    )
    first, second = configuration.profiles
    assert first == DEFAULT.profiles[0]
    assert second.resources == {"cpu": 2, "example.com/gpu": 1}
    assert second.device_strategy == "first-fit"
    packed = configuration.rosters()["packed"]
    assert names(packed) == set(PLUGINS) - {"TaintToleration", "BalancedAllocation", "LeastAllocated"}
    assert packed.weights == {**SCORES, "MostAllocated": 5, "LeastAllocated": 0, "NodeAffinity": 7}


def test_patience() -> None:
    configuration = own(
        "backoff: {initialSeconds: 2, maxSeconds: 30}\nbindingTimeoutSeconds: 5\ngangs: false\n"
    )
    assert configuration.backoff == QueueBackoff(initial=2, turned_away=2, failed=30)
    assert (configuration.binding_seconds, configuration.gangs) == (5, False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            "profile: []", "s.yaml: profile: unknown field; the file has profiles, ", id="unknown field"
        ),
        pytest.param(
            "profiles: [{schedulerName: a, deviceStrateg: first-fit}]",
            "s.yaml: profiles[0].deviceStrateg: unknown field; profiles[0] has deviceStrategy, ",
            id="unknown field of a profile",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {disable: []}}]",
            "s.yaml: profiles[1].plugins.disable: unknown field; profiles[1].plugins has disabled",
            id="unknown field further in",
        ),
        pytest.param(
            '"a.b": 1', "s.yaml: a.b: unknown field; the file has ", id="unknown field with a dot in it"
        ),
        pytest.param("profiles: []", "s.yaml: profiles: has 0 entries, not 1 to 64", id="no profiles"),
        pytest.param(
            "profiles: [{}]",
            "s.yaml: profiles[0]: Object missing required field `schedulerName`",
            id="no name",
        ),
        pytest.param(
            "profiles: [{schedulerName: ''}]",
            "s.yaml: profiles[0].schedulerName: Expected `str` of length >= 1",
            id="empty name",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "s.yaml: profiles[1].schedulerName: another profile is called a",
            id="two profiles of one name",
        ),
        pytest.param("gangs: 1", "s.yaml: gangs: Expected `bool`, got `int`", id="wrong type"),
        pytest.param(
            "bindingTimeoutSeconds: 0",
            "s.yaml: bindingTimeoutSeconds: Expected `float` > 0.0",
            id="out of range",
        ),
        pytest.param(
            "backoff: {initialSeconds: 5, maxSeconds: 4}",
            "s.yaml: backoff.maxSeconds: 4 is less than the initial 5 seconds",
            id="backoff that shrinks",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, plugins: {disabled: [Foo]}}]",
            "s.yaml: profiles[0].plugins.disabled[0]: 'Foo' is not one of SchedulingGates, ",
            id="unknown plugin",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, plugins: {disabled: [NodePorts, NodePorts]}}]",
            "s.yaml: profiles[0].plugins.disabled[1]: NodePorts stands twice",
            id="plugin disabled twice",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, scores: {NodePorts: 1}}]",
            "s.yaml: profiles[0].scores: 'NodePorts' is not one of TaintToleration, ",
            id="a plugin that does not score",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, scores: {LeastAllocated: 101}}]",
            "s.yaml: profiles[0].scores.LeastAllocated: 101 is not a whole number from 0 to 100",
            id="too heavy",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, scores: {LeastAllocated: true}}]",
            "s.yaml: profiles[0].scores.LeastAllocated: True is not a whole number from 0 to 100",
            id="no number",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, resources: {cpu: -1}}]",
            "s.yaml: profiles[0].resources.cpu: -1 is not a whole number from 0 to 100",
            id="negative weight",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, deviceStrategy: fastest}]",
            "s.yaml: profiles[0].deviceStrategy: 'fastest' is not one of keep-whole, first-fit",
            id="unknown strategy",
        ),
        pytest.param(
            "gangs: true\ngangs: false", 's.yaml: line 4: the key "gangs" occurs twice', id="key twice"
        ),
    ],
)
def test_mistakes_are_told_with_file_and_field(body: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        own(body)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "s.yaml: one document is expected", id="nothing"),
        pytest.param("[]", "s.yaml: one document is expected", id="no mapping"),
        pytest.param("a: 1\n---\nb: 2", "s.yaml: one document is expected", id="two documents"),
        pytest.param("a: [", "s.yaml: line ", id="no YAML"),
        pytest.param(
            "kind: Pod\napiVersion: v1", "s.yaml: apiVersion, kind: v1 Pod is not known", id="another kind"
        ),
    ],
)
def test_files_that_are_no_configuration(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(text, "s.yaml")
    assert str(caught.value).startswith(message)


# --- Kubernetes' format ---


def test_kubernetes_defaults_are_ours_but_for_its_backoff() -> None:
    configuration = kubernetes()
    assert configuration.profiles == DEFAULT.profiles
    assert configuration.backoff == QueueBackoff(initial=1, turned_away=1, failed=10)


def test_what_says_how_the_process_runs_is_ignored_and_told() -> None:
    configuration = kubernetes(
        """
        leaderElection: {leaderElect: true}
        clientConnection: {kubeconfig: /etc/x}
        parallelism: 16
        podInitialBackoffSeconds: 2
        podMaxBackoffSeconds: 20
        """
    )
    assert configuration.ignored == ("leaderElection", "clientConnection", "parallelism")
    assert configuration.backoff == QueueBackoff(initial=2, turned_away=2, failed=20)


def test_plugins_switched_off_and_scores_weighed() -> None:
    profile = only(
        kubernetes(
            """
            profiles:
            - schedulerName: mine
              plugins:
                multiPoint:
                  disabled: [{name: InterPodAffinity}, {name: ImageLocality}, {name: DefaultPreemption}]
                score:
                  disabled: [{name: NodeResourcesBalancedAllocation}, {name: TaintToleration}]
                  enabled: [{name: NodeAffinity, weight: 9}, {name: PodTopologySpread}]
            """
        )
    )
    assert profile.name == "mine"
    off = {"InterPodAffinity", "DefaultPreemption", "NominatedNodes", "BalancedAllocation", "MostAllocated"}
    assert names(profile) == set(PLUGINS) - off
    assert profile.weights == {
        **SCORES,
        "BalancedAllocation": 0,
        "TaintToleration": 0,
        "NodeAffinity": 9,
        "PodTopologySpread": 1,
    }


def test_all_switched_off_but_some() -> None:
    profile = only(
        kubernetes(
            """
            profiles:
            - plugins:
                multiPoint: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}, {name: NodeAffinity, weight: 4}]}
            """
        )
    )
    assert names(profile) == {"NodeResourcesFit", "LeastAllocated", "NodeAffinity"}
    assert profile.weights["NodeAffinity"] == 4


def test_all_scores_off_but_one() -> None:
    profile = only(
        kubernetes(
            "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 3}]}}}]"
        )
    )
    assert {name for name, weight in profile.weights.items() if weight} == {"LeastAllocated"}
    assert profile.weights["LeastAllocated"] == 3
    assert "NodePorts" in names(profile)


def test_the_strategy_of_node_resources_fit() -> None:
    configuration = kubernetes(
        """
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args:
              apiVersion: kubescheduler.config.k8s.io/v1
              kind: NodeResourcesFitArgs
              scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: example.com/gpu}]}
          - name: NodeResourcesBalancedAllocation
            args: {resources: [{name: memory}]}
          - name: InterPodAffinity
            args: {hardPodAffinityWeight: 1}
          - name: DefaultPreemption
            args: {minCandidateNodesPercentage: 10}
          - name: VolumeBinding
            args: {bindTimeoutSeconds: 600, shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}
          plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}]}}
        """
    )
    (spec,) = configuration.profiles
    assert spec.resources == {"cpu": 3, "example.com/gpu": 1}
    assert spec.balanced == {"memory": 1}
    weights = only(configuration).weights
    assert (weights["MostAllocated"], weights["LeastAllocated"]) == (5, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("extenders: [{urlPrefix: x}]", "k.yaml: extenders: there are none here", id="extenders"),
        pytest.param(
            "profilez: []", "k.yaml: profilez: unknown field; the file has profiles, ", id="unknown field"
        ),
        pytest.param(
            "leaderElecton: {}",
            "k.yaml: leaderElecton: unknown field; the file has leaderElection, ",
            id="unknown field like one that is ignored",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, wieght: 1}]}}}]",
            "k.yaml: profiles[0].plugins.score.enabled[0].wieght: unknown field; "
            "profiles[0].plugins.score.enabled[0] has weight, name",
            id="unknown field of a plugin",
        ),
        pytest.param(
            "profiles: [{plugins: {filter: {disabled: [{name: NodePorts}]}}}]",
            "k.yaml: profiles[0].plugins.filter: plugins cannot be switched at single points",
            id="a single extension point",
        ),
        pytest.param(
            "profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}}]",
            "k.yaml: profiles[0].plugins.multiPoint.enabled[0]: 'Coscheduling' is not a plugin that is known",
            id="somebody's plugin",
        ),
        pytest.param(
            "profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}]}}}]",
            "k.yaml: profiles[0].plugins.multiPoint.enabled[0]: ImageLocality does not exist here",
            id="a plugin of Kubernetes that is none here",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: NodePorts, weight: 2}]}}}]",
            "k.yaml: profiles[0].plugins.score.enabled[0]: NodePorts does not score",
            id="a plugin that does not score",
        ),
        pytest.param(
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodePorts, weight: 2}]}}}]",
            "k.yaml: profiles[0].plugins.multiPoint.enabled[0].weight: NodePorts does not score",
            id="a weight for one that does not score",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: x}]}}}]",
            "k.yaml: profiles[0].plugins.score.enabled[0].weight: Expected `int | null`, got `str`",
            id="no number",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x]}}]}]",
            "k.yaml: profiles[0].pluginConfig[0].args.ignoredResources: unknown field; profiles[0].pluginConfig[0].args has ",
            id="arguments that mean nothing here",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]",
            "k.yaml: profiles[0]: scoringStrategy.type: 'RequestedToCapacityRatio' is not LeastAllocated or MostAllocated",
            id="a strategy that is none here",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]}]",
            "k.yaml: profiles[0].pluginConfig[0].args: InterPodAffinity can be configured only as it is by default",
            id="arguments that would change decisions",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}]}}]}]",
            "k.yaml: profiles[0].pluginConfig[0].args.shape: volumes have no score here; remove it",
            id="how much storage shall be left",
        ),
        pytest.param(
            "profiles: [{}, {}]",
            "k.yaml: profiles[1].schedulerName: another profile is called default-scheduler",
            id="two profiles of one name",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: a}, {name: a}]}}]}]",
            "k.yaml: profiles[0].pluginConfig[0].args.resources: a resource stands twice",
            id="a resource twice",
        ),
    ],
)
def test_what_kubernetes_files_may_not_say(body: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kubernetes(body)
    assert str(caught.value).startswith(message)


KUBERNETES = (
    *("SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity"),
    *(
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
    ),
    *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "DefaultPreemption"),
    *("NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures"),
    *("DeferredPodScheduling", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"),
)
"""All plugins that kube-scheduler 1.37 may have by its feature gates."""


@pytest.mark.parametrize("name", KUBERNETES)
def test_a_plugin_of_kubernetes_is_here_or_the_page_says_that_it_is_not(name: str) -> None:
    page = (CHECKOUT / "docs/scheduling.md").read_text()
    ours = {"NodeResourcesBalancedAllocation": "BalancedAllocation"}.get(name, name)
    assert (
        ours in PLUGINS
        or name in page.partition("### What kube-scheduler has besides")[2].partition("\n## ")[0]
    )
