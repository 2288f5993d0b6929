"""The page at ``/ui``: what the fleet looks like to whoever is logged in.

``page`` serves the files that a browser runs. ``rights`` says what a person may read and where; a ``view`` reads that, as that
person, and keeps it up; ``views`` has one for each person who looks. ``fleet`` puts devices into the form that the page reads, ``waiting`` the
pods without a node. ``census`` is what is counted for everybody: the past, in ``timeline``. ``dashboard`` answers requests. The page draws what it is told
and decides nothing.
"""
