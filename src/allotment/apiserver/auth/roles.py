"""A table of the roles and bindings that every server has from the start.

``api.rights`` explains the lines. The names and rights of ``system:`` roles and of admin, edit and view are Kubernetes'.
Ours follow: what this server adds to view and edit (pod groups, workloads, semantic claim parameters), and a role for each
component of Allotment. What the components may do is stated beside their code; ``component_rights`` has it from there.

One thing differs: the service accounts of kube-controller-manager's controllers are not listed one by one. Against this
server it runs with a single credential by default, so ``system:kube-controller-manager`` has the rights of all controllers
for the kinds that we serve.
"""

from __future__ import annotations

from dataclasses import dataclass

from allotment.api.rights import READ, grant
from allotment.apiserver.auth import component_rights, users
from allotment.apiserver.auth.rule import Rule

WRITE = "create,delete,deletecollection,patch,update"
ALL = f"{READ},{WRITE}"
CHANGE = "patch,update"

_RESOURCE, _SCHEDULING, _OWN = "resource.k8s.io", "scheduling.k8s.io", "allotment.dev"
_VOLCANO = "scheduling.volcano.sh"
_KARPENTER = "karpenter.sh"
_EVENTS = "create,patch,update: core,events.k8s.io: events"
_DELEGATED = (
    "create: authentication.k8s.io: tokenreviews",
    "create: authorization.k8s.io: subjectaccessreviews",
)


@dataclass(frozen=True, slots=True)
class DefaultRole:
    """A cluster role or, with a namespace, a role in it. ``aggregates`` names the label of roles that it collects."""

    name: str
    rules: tuple[str, ...] = ()
    aggregates: str = ""
    labels: tuple[str, ...] = ()  # the names of roles that collect this one
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class DefaultBinding:
    """Binds a role of the table. Subjects are ``user:NAME``, ``group:NAME`` or ``account:NAMESPACE/NAME``."""

    role: str
    subjects: tuple[str, ...]
    namespace: str = ""
    name: str = ""  # the role's name when absent


NODE_LEASES, NODE_LEASES_IN = "allotment:node-leases", "kube-node-lease"
"""The role of whoever keeps simulated nodes alive, and its namespace."""
_LIVE = "/healthz,/livez,/readyz"

_PEOPLE = (
    DefaultRole("cluster-admin", ("*: *: *", "*: *")),
    DefaultRole("admin", aggregates="admin"),
    DefaultRole("edit", aggregates="edit", labels=("admin",)),
    DefaultRole("view", aggregates="view", labels=("edit",)),
    DefaultRole(
        "system:aggregate-to-admin",
        (
            "create: authorization.k8s.io: localsubjectaccessreviews",
            f"{ALL}: rbac.authorization.k8s.io: rolebindings,roles",
        ),
        labels=("admin",),
    ),
    DefaultRole(
        "system:aggregate-to-edit",
        (
            f"{READ}: core: pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy",
            "impersonate: core: serviceaccounts",
            f"{WRITE}: core: pods,pods/attach,pods/exec,pods/portforward,pods/proxy",
            "create: core: pods/eviction",
            f"{WRITE}: core: configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,"
            "secrets,serviceaccounts,services,services/proxy",
            "create: core: serviceaccounts/token",
            f"{WRITE}: core,events.k8s.io: events",
            f"{WRITE}: apps: daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,"
            "replicasets/scale,statefulsets,statefulsets/scale",
            f"{WRITE}: autoscaling: horizontalpodautoscalers",
            f"{WRITE}: batch: cronjobs,jobs",
            f"{WRITE}: policy: poddisruptionbudgets",
            f"{WRITE}: networking.k8s.io: ingresses,networkpolicies",
            f"{ALL}: coordination.k8s.io: leases",
            f"{WRITE}: {_RESOURCE}: resourceclaims,resourceclaimtemplates",
            f"{WRITE}: {_SCHEDULING}: podgroups,workloads",
        ),
        labels=("edit",),
    ),
    DefaultRole(
        "system:aggregate-to-view",
        (
            f"{READ}: core: configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,"
            "replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status",
            f"{READ}: core: bindings,limitranges,namespaces/status,pods/log,pods/status,"
            "replicationcontrollers/status,resourcequotas,resourcequotas/status",
            f"{READ}: core: namespaces",
            f"{READ}: core,events.k8s.io: events",
            f"{READ}: discovery.k8s.io: endpointslices",
            f"{READ}: apps: controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,"
            "deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,"
            "statefulsets/status",
            f"{READ}: autoscaling: horizontalpodautoscalers,horizontalpodautoscalers/status",
            f"{READ}: batch: cronjobs,cronjobs/status,jobs,jobs/status",
            f"{READ}: policy: poddisruptionbudgets,poddisruptionbudgets/status",
            f"{READ}: networking.k8s.io: ingresses,ingresses/status,networkpolicies",
            f"{READ}: {_RESOURCE}: resourceclaims,resourceclaims/status,resourceclaimtemplates",
            f"{READ}: {_SCHEDULING}: podgroups,podgroups/status,workloads",
        ),
        labels=("view",),
    ),
    DefaultRole(
        "allotment:aggregate-to-view",
        (f"{READ}: {_RESOURCE},{_OWN}: resourceclaimparameters",),
        labels=("view",),
    ),
    DefaultRole(
        "allotment:aggregate-to-edit",
        (f"{WRITE}: {_RESOURCE},{_OWN}: resourceclaimparameters",),
        labels=("edit",),
    ),
)

_EVERYONE = (
    DefaultRole(
        "system:discovery",
        (f"get: {_LIVE},/version,/version/,/openapi,/openapi/*,/api,/api/*,/apis,/apis/*",),
    ),
    DefaultRole(
        "system:basic-user",
        (
            "create: authorization.k8s.io: selfsubjectaccessreviews,selfsubjectrulesreviews",
            "create: authentication.k8s.io: selfsubjectreviews",
        ),
    ),
    DefaultRole("system:public-info-viewer", (f"get: {_LIVE},/version,/version/",)),
    DefaultRole(
        "system:monitoring",
        (f"get: /metrics,/metrics/slis,{_LIVE},/livez/*,/readyz/*,/healthz/*", "get: core: nodes/metrics"),
    ),
    DefaultRole(
        "system:service-account-issuer-discovery",
        (
            "get: /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,"
            "/openid/v1/jwks/",
        ),
    ),
)

_SCHEDULER = (
    _EVENTS,
    "create: coordination.k8s.io: leases",
    "get,list,update,watch: coordination.k8s.io: leases: kube-scheduler",
    f"{ALL}: coordination.k8s.io: leasecandidates",
    f"{READ}: core: namespaces,nodes,persistentvolumeclaims,persistentvolumes,replicationcontrollers,services",
    f"delete,{READ}: core: pods",
    "create: core: bindings,pods/binding",
    f"{CHANGE}: core: pods/status",
    "update: core: pods/finalizers",
    f"{READ}: apps,extensions: replicasets",
    f"{READ}: apps: statefulsets",
    f"{READ}: policy: poddisruptionbudgets",
    *_DELEGATED,
    f"{READ}: storage.k8s.io: csidrivers,csinodes,csistoragecapacities,volumeattachments",
    f"{READ}: {_RESOURCE}: deviceclasses,devicetaintrules,resourceslices",
    f"create,delete,{CHANGE},{READ}: {_RESOURCE}: resourceclaims",
    f"{CHANGE},{READ}: {_RESOURCE}: resourceclaims/status",
    f"{CHANGE}: {_RESOURCE}: resourceclaims/binding",
    f"{READ}: {_SCHEDULING}: podgroups,workloads",
    f"{CHANGE}: {_SCHEDULING}: podgroups/status",
)

_CONTROLLER_MANAGER = (
    _EVENTS,
    "create: coordination.k8s.io: leases",
    "get,update: coordination.k8s.io: leases: kube-controller-manager",
    "create,delete,get,update: core: secrets",
    "create,get,update: core: serviceaccounts",
    "create: core: serviceaccounts/token",
    "create,get,update: core: configmaps",
    *_DELEGATED,
    "list,watch: *: *",
    # garbage collection and the deletion of namespaces
    f"delete,deletecollection,get,{CHANGE}: *: *",
    # the other controllers for pods, workloads, nodes and claims
    "create: core: pods",
    "create: core: pods/binding,pods/eviction",
    f"{CHANGE}: core: pods/finalizers,pods/status,namespaces/finalize,namespaces/status,nodes/status,"
    "resourcequotas/status,services/status",
    "create: apps: controllerrevisions,replicasets",
    f"{CHANGE}: apps: daemonsets/finalizers,daemonsets/status,deployments/finalizers,deployments/status,"
    "replicasets/finalizers,replicasets/status,statefulsets/finalizers,statefulsets/status",
    "create: batch: jobs",
    "create: discovery.k8s.io: endpointslices",
    "create: core: endpoints,endpoints/restricted,persistentvolumeclaims",
    f"create: {_RESOURCE}: resourceclaims",
    f"{CHANGE}: {_RESOURCE}: devicetaintrules/status,resourceclaims/binding,resourceclaims/status",
    "escalate: rbac.authorization.k8s.io: clusterroles",
)

NODE_RULES = (
    *_DELEGATED,
    "create: authorization.k8s.io: localsubjectaccessreviews",
    f"{READ}: core: services",
    f"create,{CHANGE},{READ}: core: nodes",
    f"{CHANGE}: core: nodes/status",
    _EVENTS,
    f"create,delete,{READ}: core: pods",
    f"{CHANGE}: core: pods/status",
    "create: core: pods/eviction,serviceaccounts/token",
    f"{READ}: core: configmaps,secrets",
    "get: core: persistentvolumeclaims,persistentvolumes,serviceaccounts",
    f"get,{CHANGE}: core: persistentvolumeclaims/status",
    f"create,delete,get,{CHANGE}: coordination.k8s.io: leases",
    f"{READ}: node.k8s.io: runtimeclasses",
    f"{READ}: storage.k8s.io: csidrivers",
    f"get: {_RESOURCE}: resourceclaims",
    f"{ALL}: {_RESOURCE}: noderesourceslices,resourceslices",
)
"""Everything that a node may ever do. The node authorizer restricts most of it to the node's own objects; see ``node``."""

_PROGRAMS = (
    DefaultRole("system:kube-scheduler", _SCHEDULER),
    DefaultRole(
        "system:volume-scheduler",
        (
            f"{CHANGE},{READ}: core: persistentvolumeclaims,persistentvolumes",
            f"{READ}: storage.k8s.io: storageclasses",
        ),
    ),
    DefaultRole("system:kube-controller-manager", _CONTROLLER_MANAGER),
    DefaultRole("system:node", NODE_RULES),
    DefaultRole(
        "extension-apiserver-authentication-reader",
        (f"{READ}: core: configmaps: extension-apiserver-authentication",),
        namespace="kube-system",
    ),
    *(
        DefaultRole(
            f"system::leader-locking-{program}",
            ("create,get,list,update,watch: coordination.k8s.io: leasecandidates,leases",),
            namespace="kube-system",
        )
        for program in ("kube-controller-manager", "kube-scheduler")
    ),
)

_DEVICES = (
    "deviceclasses,devicetaintrules,resourceslices,noderesourceslices,resourceclasses,resourceclassparameters"
)
_COMPONENTS = (
    DefaultRole(users.SCHEDULER, component_rights.SCHEDULER),
    DefaultRole(users.CONTROLLERS, component_rights.CONTROLLERS),
    DefaultRole(NODE_LEASES, component_rights.NODE_LEASES, namespace=NODE_LEASES_IN),
    DefaultRole(users.AUTOSCALER, component_rights.AUTOSCALER),
    DefaultRole(users.DASHBOARD, component_rights.DASHBOARD),
    DefaultRole(  # counts only, no names of claims, so everybody may know what is left
        "allotment:pool-reader",
        (
            f"{READ}: {_RESOURCE},{_OWN}: resourcepools,resourcepools/status",
            # shows whether the counter is running
            "get: coordination.k8s.io: leases: allotment-pools",
        ),
    ),
    DefaultRole(
        users.VIEWER,
        (
            f"{READ}: core: nodes",
            f"{READ}: {_RESOURCE},{_OWN}: {_DEVICES},resourcepools,resourcepools/status",
            f"{READ}: {_SCHEDULING}: priorityclasses",
            f"{READ}: {_KARPENTER}: nodeclaims,nodeoverlays,nodepools",
            f"{READ}: {_OWN}: nodegroups",
        ),
    ),
)

ROLES = (*_PEOPLE, *_EVERYONE, *_PROGRAMS, *_COMPONENTS)

BINDINGS = (
    DefaultBinding("cluster-admin", ("group:system:masters",)),
    DefaultBinding("system:discovery", ("group:system:authenticated",)),
    DefaultBinding("system:basic-user", ("group:system:authenticated",)),
    DefaultBinding(
        "system:public-info-viewer", ("group:system:authenticated", "group:system:unauthenticated")
    ),
    DefaultBinding("allotment:pool-reader", ("group:system:authenticated",)),
    DefaultBinding("system:monitoring", ("group:system:monitoring",)),
    DefaultBinding("system:service-account-issuer-discovery", ("group:system:serviceaccounts",)),
    DefaultBinding("system:kube-scheduler", ("user:system:kube-scheduler",)),
    DefaultBinding("system:volume-scheduler", ("user:system:kube-scheduler",)),
    DefaultBinding("system:kube-controller-manager", ("user:system:kube-controller-manager",)),
    DefaultBinding("system:node", ()),  # as upstream: the node authorizer grants it, not a binding
    DefaultBinding(
        "extension-apiserver-authentication-reader",
        ("user:system:kube-controller-manager", "user:system:kube-scheduler"),
        "kube-system",
        "system::extension-apiserver-authentication-reader",
    ),
    *(
        DefaultBinding(
            f"system::leader-locking-{program}",
            (f"user:system:{program}", f"account:kube-system/{program}"),
            "kube-system",
        )
        for program in ("kube-controller-manager", "kube-scheduler")
    ),
    DefaultBinding(NODE_LEASES, (f"user:{users.CONTROLLERS}",), NODE_LEASES_IN),
    *(
        DefaultBinding(user, (f"user:{user}",))
        for user in (users.SCHEDULER, users.CONTROLLERS, users.AUTOSCALER, users.DASHBOARD, users.VIEWER)
    ),
)


def rule(line: str) -> Rule:
    """A line of the table as a rule; the role or the server's table says in which namespace it holds."""
    found = grant(line)
    return Rule(found.verbs, found.groups, found.resources, found.names, found.paths)
