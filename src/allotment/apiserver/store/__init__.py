"""The store: objects, the revisions at which they were written, and the changes since.

::

    store       the front: reads, writes, watches, compaction, backup        (the only door for other layers)
    record      an object at one revision, and a change of it
    state       the newest record of every key, in order
    history     the recent changes, bounded: what watches resume from and old lists are rewound with
    scope       what a watch covers
    watch       open watches, and the changes that their readers have not taken yet
    pending     a write on its way to disk
    writer      the thread that commits everything that is waiting in one transaction
    database    the SQLite file: schema, checks, transactions
    mark        how far the log must reach, in a file beside it
    reserve     room on the disk for deletions
    lock        lets only one process use a store at a time
    backup      a consistent copy, and the way back
    salvage     replaces a damaged store by its readable parts

Errors::

    StoreError
    ├── OpenError           the store cannot be opened; the message says what to do
    │   ├── Locked          another process has it (holder)
    │   ├── Corrupt         the file is damaged, or is no store
    │   ├── Lost            writes that were acknowledged are missing (first, last)
    │   ├── TooNew          a newer Allotment wrote it
    │   └── Unwritable      the folder or file cannot be created, read or written
    ├── CommitFailed        a write did not reach the disk and did not happen; a later one may succeed
    │   └── DiskFull        there is only room for deletions; nothing was done
    ├── Overloaded          too much is on its way to disk; nothing was done, try again soon
    ├── ObjectTooLarge      an object grew beyond what one may have; nothing was done
    ├── Compacted           the requested revision is older than the history (revision, compacted)
    ├── Overflow            a watch's reader was too slow; list anew and watch from there
    └── Closed              the store, or the watch, was closed
"""
