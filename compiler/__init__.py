"""Graphs of recorded programs become native code: passes, loops, emitters and the artifact writer."""
