package main

import (
	"fmt"
	"os"
	"strings"
)

// A page of documentation that is run. Each of its sections, from one heading of the
// second level to the next, is a script in a world of its own:
//
//	```console        a block of what is typed, after "$ ", and what is then printed; a line
//	$ command         that ends with a backslash goes on in the next one
//	output
//	```
//	<!-- run          what happens meanwhile, in lines of a script: see TestRunbook. It is
//	line              not shown to those who read
//	-->
type page struct {
	path     string
	home     string // the folder of the operator, on the page
	lines    []string
	commands []*typed
	sections []section
}

// A section is what is typed and what happens under a heading.
type section struct {
	title  string
	script []string // lines of a script; one that types is "type N"
}

// A typed command with what is printed.
type typed struct {
	line     int    // where it is, counted from 1
	text     string // what is typed
	from, to int    // the lines of its output, from included and to not
	got      []string
}

func readPage(path, home string) (*page, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &page{path: path, home: home, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	for n := 0; n < len(p.lines); n++ {
		switch line := p.lines[n]; {
		case strings.HasPrefix(line, "## "):
			p.sections = append(p.sections, section{title: strings.TrimPrefix(line, "## ")})
		case line == "<!-- run":
			for n++; n < len(p.lines) && p.lines[n] != "-->"; n++ {
				if err := p.add(n, p.lines[n]); err != nil {
					return nil, err
				}
			}
		case line == "```console":
			if n, err = p.block(n + 1); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *page) add(n int, line string) error {
	if len(p.sections) == 0 {
		return fmt.Errorf("%s:%d: there is no heading yet", p.path, n+1)
	}
	s := &p.sections[len(p.sections)-1]
	s.script = append(s.script, line)
	return nil
}

// block reads a block from its first line on, and returns the line of its end.
func (p *page) block(n int) (int, error) {
	for n < len(p.lines) && p.lines[n] != "```" {
		text, ok := strings.CutPrefix(p.lines[n], "$ ")
		if !ok {
			return n, fmt.Errorf("%s:%d: nothing is typed before this", p.path, n+1)
		}
		c := &typed{line: n + 1, text: text}
		for n++; strings.HasSuffix(c.text, "\\") && n < len(p.lines); n++ {
			c.text += "\n" + p.lines[n]
		}
		for c.from = n; n < len(p.lines) && p.lines[n] != "```" && !strings.HasPrefix(p.lines[n], "$ "); n++ {
		}
		c.to = n
		if err := p.add(c.from, fmt.Sprintf("type %d", len(p.commands))); err != nil {
			return n, err
		}
		p.commands = append(p.commands, c)
	}
	return n, nil
}

// rewrite writes the page with what was printed in the place of what it shows.
func (p *page) rewrite() error {
	var text strings.Builder
	at := 0
	for _, c := range p.commands {
		for _, line := range append(p.lines[at:c.from:c.from], c.got...) {
			text.WriteString(line + "\n")
		}
		at = c.to
	}
	for _, line := range p.lines[at:] {
		text.WriteString(line + "\n")
	}
	return os.WriteFile(p.path, []byte(text.String()), 0o644)
}
