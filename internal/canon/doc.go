// Package canon writes canonical JSON: for one value one text, whatever spelling it
// came in. The text is what CPython's json.dumps(json.loads(doc), sort_keys=True,
// separators=(",", ":")) prints, since servers in Go and Python must agree on the
// hash of a request to the byte.
//
// It works on the raw text throughout. A decoded Go value would have lost what the
// text distinguishes: 1 and 1.0, integers beyond 2^53, and lone surrogates, which
// are legal in JSON (\ud800) and in Python strings but not in UTF-8. Here they live
// as the three bytes that UTF-8 would give them if it could ("WTF-8").
//
// What is accepted is RFC 8259 in valid UTF-8, nested at most [MaxDepth] deep and at
// most [MaxBytes] long. Errors give an offset and never the content.
package canon
