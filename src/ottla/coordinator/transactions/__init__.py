"""Transactions as a pure state machine over `__transaction_state`; markers.py is its shell."""
