"""Requests and answers: listeners, connections, dispatch, limits, and requests that wait or take long."""
