"""What the launcher's processes need of the machine under them: files, processes, daemons."""
