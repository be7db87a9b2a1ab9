"""placeholder, written next"""
