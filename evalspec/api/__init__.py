"""The library, and the logic behind the commands. `evalspec` exports the functions of `public`."""
