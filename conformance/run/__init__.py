"""One cell from start to history: clocks, the topology's parties, and the steps.
Nothing here decides what is right; it only makes things happen and writes them down.
"""
