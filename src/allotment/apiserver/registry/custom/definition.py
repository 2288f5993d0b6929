"""stub"""


def definition_errors(crd):
    return []


def change_errors(crd, old):
    return []


def status_errors(crd):
    return []


def definition_warnings(crd):
    return []
