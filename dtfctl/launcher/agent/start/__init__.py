"""What a job's processes need before they can be started."""
