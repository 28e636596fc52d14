"""Transactions as a pure state machine over `__transaction_state`; `marker_sender.py` is its shell."""
