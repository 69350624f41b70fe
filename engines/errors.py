"""The one kind of error that is meant for a person."""


class UserError(Exception):
    """Something a person can act on.

    The message is one or two sentences: what is wrong, and what to do about it. The command line prints it on
    one line and exits with 2; the page shows it beside the thing that caused it. Anything else that is raised
    is a fault of the program.
    """
