"""Acts as a user with a browser: opens a page of the authorization server, logs in as alice, consents, and follows the redirect.

Run: person.py URL [--decline]
Prints the text of the last page. Works only for the pages of oidc-provider's development mode.
"""

import http.cookiejar
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

url, decline = sys.argv[1], "--decline" in sys.argv
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))


def visit(url, form=None):
    body = urllib.parse.urlencode(form).encode() if form else None
    try:
        with browser.open(url, body, timeout=20) as answer:
            return answer.url, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.url, error.read().decode()


here, page = visit(url)
for _ in range(5):
    action = re.search(r'<form[^>]* action="([^"]+)"', page)
    if not action:
        break
    fields = dict(re.findall(r'<input[^>]* name="([^"]+)"[^>]*value="([^"]*)"', page))
    if 'name="login"' in page:
        fields |= {"login": "alice", "password": "a word"}
    target = urllib.parse.urljoin(here, action[1])
    if decline:
        # The link beside the form.
        here, page = visit(urllib.parse.urljoin(here, re.search(r'href="([^"]*/abort)"', page)[1]))
        break
    here, page = visit(target, fields)
print(re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.S)).strip())
