"""The session of `evalspec label`: what it shows and what keys do."""
