"""Every table and figure of the paper, one short module each: its TITLE, its runs (`specs`), its drawing (`draw`).

items.py lists them; published/ holds the paper's numbers, recorded/ what is kept of our runs.
"""
