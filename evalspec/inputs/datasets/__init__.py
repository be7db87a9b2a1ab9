"""Read and write datasets, in the native format or in that of another system (`evalspec.inputs.formats`)."""
