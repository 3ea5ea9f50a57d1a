package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A printer collects the text of a report.
type printer struct {
	bytes.Buffer
	colour  bool
	verbose bool
}

func (p *printer) linef(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// The colours are those of a verdict.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *printer) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[1;" + colour + "m" + text + "\x1b[0m"
}

// A labelled line explains a verdict: a name, and what is said of it.
type labelled struct{ label, text string }

// labels prints labelled lines, aligned.
func (p *printer) labels(lines ...labelled) {
	const least = len("keyset")
	width := least
	for _, l := range lines {
		if l.text != "" {
			width = max(width, utf8.RuneCountInString(l.label))
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
