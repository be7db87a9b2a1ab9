"""The library, and the logic below the commands: `public` has the functions that `evalspec` exports."""
