# tests/fault
