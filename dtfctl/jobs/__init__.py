"""Programs that commands submit as jobs. Each lies here as a script, as its folder is on the job's path."""
