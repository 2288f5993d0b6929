"""The pages at ``/ui``, which show the fleet and its machines to the user who is logged in.

``page`` serves the files that a browser runs. ``rights`` says what a person may read, and where. A ``person_view`` reads that
with the person's identity, and stays up to date; ``shared_views`` has one for each person who has a page open.
``event_stream`` turns a view into one stream of changes, in the format of a teller.

* *The fleet*: ``fleet_view`` and ``fleet_document``. ``fleet`` puts devices into the form that the page reads; ``waiting``
  does so for pods without a node. ``census`` counts for everybody; ``timeline`` keeps the history.
* *Machines*: ``machine_choice`` has the machines that can be launched, ``machine_view`` these and the requested ones.
  ``machine_document``, ``source_document`` and ``machine_choice_document`` put them into the page's form. ``plans`` has plans
  made on request; ``plan_document`` puts them into the page's form.

``dashboard`` answers requests. The pages draw what they receive and decide nothing.
"""
