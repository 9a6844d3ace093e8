# tests/system
