"""Why a pod or a claim has no devices, and which single change would help."""
