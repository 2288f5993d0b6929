"""The page at ``/ui``: what the fleet looks like, for whoever is logged in.

``page`` serves the files that a browser runs. ``cluster`` follows the server; ``rights`` says what of it a person may see, ``fleet``
keeps the picture that all people with the same rights share, ``waiting`` the pods without a node, ``timeline`` the past.
``dashboard`` answers requests. The page draws what it is told and decides nothing.
"""
