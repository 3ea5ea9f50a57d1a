// Package strict reads the JSON documents that carry a MAC: keysets and fleet reports.
//
// Two readers of an authenticated text must see the same thing in it, so [Parse]
// refuses whatever readers differ about: duplicate members, numbers that are not
// integers in [0, 2^53), lone surrogates, invalid UTF-8, a byte order mark, anything
// behind the document. A [Value] remembers all members, known or not, and [Append]
// writes them as canonical JSON, the text under the MAC.
//
// An [Object] reads the members that a format knows, in their exact spelling, and
// collects the first error, with the path to it and never with content.
package strict
