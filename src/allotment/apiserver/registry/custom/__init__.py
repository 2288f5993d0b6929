"""Custom kinds: from a CustomResourceDefinition to a resource that is served like any other.

=================  ===========================================================================================
``structural``     a version's schema as a tree, and as the Schema that patches and OpenAPI read
``pruning``        what a body becomes: unknown fields out, nulls out, defaults in
``values``         whether values have the types, ranges and shapes that the schema asks for
``formats``        the named formats of strings
``lists``          lists that are sets or maps: no element twice
``embedded``       whole objects inside others
``declarations``   what rules may refer to, and how large it can be
``rules``          x-kubernetes-validations, compiled and run within a budget
``jsonpath``       the paths of columns, scale and field selectors
``strategy``       all of these on the way into the store
``kind``           a definition made a resource
``definition``     what a definition must be; ``structure`` and ``schema_rules`` judge its schemas
``open_parts``     the parts of a definition's schema that nobody looked into before
``naming``         which of the names that a definition wants it gets
=================  ===========================================================================================
"""
