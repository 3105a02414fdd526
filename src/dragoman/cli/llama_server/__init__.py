"""`dragoman llama-server`: a script's llama-server command line, served by `dragoman serve`."""
