"""The wires of judges that evalspec has, one a module."""
