"""The reference transport: a real mail server that loses no mail, with shadow redundancy as in Exchange 2013-2019.
aiosmtpd receives, aiosmtplib sends, SQLite remembers; all in one asyncio loop, without threads.
It knows nothing of the harness that drives it: a JSON file in (config.py), SMTP and LMTP out.
"""
