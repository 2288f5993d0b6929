"""The pages at ``/ui``: what the fleet and its machines look like to whoever is logged in.

``page`` serves the files that a browser runs. ``rights`` says what a person may read and where; a ``view`` reads that, as that
person, and keeps it up; ``views`` has one for each person who looks. ``viewing`` is one stream of it, in the words of a teller.

* *The fleet*: ``fleet_view`` and ``fleet_document``; ``fleet`` puts devices into the form that the page reads, ``waiting`` the pods
  without a node. ``census`` is what is counted for everybody: the past, in ``timeline``.
* *Machines*: ``choice`` is what there is to choose from, ``machine_view`` that and what was asked for; ``machine_document``,
  ``source_document`` and ``choice_document`` put it into its form. ``plans`` has plans made for those who ask, ``plan_document``
  puts them into their form.

``dashboard`` answers requests. The pages draw what they are told and decide nothing.
"""
