"""Transactions as a pure state machine over `__transaction_state`."""
