package cli

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A printer collects the text of a report.
type printer struct {
	bytes.Buffer
	colour  bool
	verbose bool
}

// linef prints a line. What its arguments bring along is escaped, see escape.
func (p *printer) linef(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", escaped(args)...)
}

// A painted text is one of keytool's own: it is printed as it is.
type painted string

// escaped returns arguments with their texts escaped.
func escaped(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case painted:
		case error:
			// Joined errors stand on lines of their own.
			args[i] = escape(strings.ReplaceAll(arg.Error(), "\n", "; "))
		default:
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
				args[i] = escape(v.String())
			}
		}
	}
	return args
}

// escape writes what is no printable character as Go does in a quoted string: names,
// reasons and errors may come from whoever writes a store or answers in an instance's
// place, and must neither steer a terminal nor forge a line.
func escape(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unprintable(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

func unprintable(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }

// The colours are those of a verdict.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *printer) paint(colour, text string) painted {
	text = escape(text)
	if p.colour {
		text = "\x1b[1;" + colour + "m" + text + "\x1b[0m"
	}
	return painted(text)
}

// A labelled line explains a verdict: a name, and what is said of it.
type labelled struct{ label, text string }

// labels prints labelled lines, aligned.
func (p *printer) labels(lines ...labelled) {
	const least = len("keyset")
	width := least
	lines = slices.Clone(lines)
	for i, l := range lines {
		lines[i].label = escape(l.label)
		if l.text != "" {
			width = max(width, utf8.RuneCountInString(lines[i].label))
		}
	}
	for _, l := range lines {
		if l.text != "" {
			p.linef("  %s  %s", pad(l.label, width), l.text)
		}
	}
}

// table prints aligned columns, to the right where the name of a column begins with ">".
func (p *printer) table(header []string, rows ...[]string) {
	right := make([]bool, len(header))
	names := make([]string, len(header))
	for i, name := range header {
		names[i], right[i] = strings.CutPrefix(name, ">")
	}
	rows = append([][]string{names}, rows...)
	for i, row := range rows {
		rows[i] = slices.Clone(row)
		for j, cell := range row {
			rows[i][j] = escape(cell)
		}
	}
	width := make([]int, len(header))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := make([]string, len(row))
		for i, cell := range row {
			if right[i] {
				line[i] = strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)) + cell
			} else {
				line[i] = pad(cell, width[i])
			}
		}
		p.linef("%s", strings.TrimRight(strings.Join(line, "  "), " "))
	}
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// counted writes a number of things whose plural is its own.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
