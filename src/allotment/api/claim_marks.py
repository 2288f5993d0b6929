"""The marks by which components tell one another about claims: finalizers and annotations, named as upstream names them."""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""On a claim while a pod that was promised its devices may start."""
SEMANTIC_FINALIZER = "semantic.dra.k8s.io/delete-protection"
"""For semantic claims, which v1 only carries."""
FINALIZERS = frozenset((FINALIZER, SEMANTIC_FINALIZER))

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made from a template: for which entry of its owner's ``resourceClaims``."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation, ``"true"`` on claims that the scheduler makes for a pod's extended resources."""
STANDS_IN_FOR = "allotment.dev/stands-in-for"
"""Annotation of a claim that keeps the devices of another one, which it names, that was removed while pods ran with them."""
