"""The four ways to change an object in part, and who owns which fields of it, as pure functions on JSON values.

==================  ==================================================================================
``json_patch.py``   RFC 6902, operation by operation
``merge_patch.py``  RFC 7386: maps merge, null deletes
``strategic.py``    merge patch that knows from the schema how lists merge
``apply.py``        server-side apply, on top of the modules below
``managed.py``      ``metadata.managedFields``: what every write does to them
``comparison.py``   the fields of an object, and those in which two differ
``merge.py``        merging by schema, and taking fields out again
``fieldset.py``     sets of fields; ``element.py``: one step of a path to a field
``value.py``        bounded copies and equality of JSON values
==================  ==================================================================================

All are bounded in cost by the size of what comes in, and raise StatusError for what makes no sense.
"""
