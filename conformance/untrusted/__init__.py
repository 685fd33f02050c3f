"""Reading and writing files below a directory that a hostile program can write.

The harness may run as root while the server under test is another user. At any moment that server can replace any name below
its directory by a symbolic link, a pipe, a directory, or a second name of a file that belongs to another user. A path that
was checked a moment ago therefore proves nothing, and these modules use no paths:

- The directory is opened once. Each name below it is looked up relative to the open directory that holds it, and no symbolic
  link is followed.
- A file is written under a new random name and then renamed. No file that exists already is opened for writing, except a log
  of our own that has one name only.
- Owner and mode are changed through the descriptor of what was just created.
- Only regular files are read, and they are opened without blocking.
- Deleting removes names, and neither follows links nor enters mounts; only a mount at the very name to delete is emptied.

Directories can be nested deeper than a path can be long, and deeper than a process can keep files open. `tree.walk` therefore
keeps one directory open, goes up by `..`, and compares where it arrives with where it came from. `tree.delete_contents` moves
nested directories to the top before it deletes them.

`directory` is for a node's own directory (`UntrustedDirectory`); `tree` walks, measures and deletes. Both import the standard
library only, because the guard of a node runs without any installed package.
"""
