"""What a run reads: the manifest, datasets in all formats, code of users."""
