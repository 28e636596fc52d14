"""What waits: responses that come later (`pending_response.py`), several that become one (`gather.py`),
callbacks that wait for a change (`watch_list.py`). All of this is pure; `tasks.py` joins it to asyncio.
"""
