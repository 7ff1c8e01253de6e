"""What a page says, and whether its tags are closed where they should be."""

import re
from html.parser import HTMLParser

VOID = {'meta', 'img', 'br', 'link'}


class Page(HTMLParser):
    """Collects visible text, attributes and any tag that is not closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.errors, self.attributes, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != 'style':
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r'\s+', ' ', ' '.join(self.words))
