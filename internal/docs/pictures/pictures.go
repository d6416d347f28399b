// Package pictures draws the documents' diagrams: docs/pictures/path.svg and house.svg.
// Its test compares the files with what it draws, and with -update writes them.
package pictures

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// style is that of all diagrams; they follow the reader's light or dark scheme.
const style = `<style>
svg{background:#fff;color:#1f2328}
text{fill:currentColor;font:14px sans-serif}
.small{font-size:12px;fill:#59636e}
.code{font:12px monospace;fill:#0550ae}
.head{font-weight:bold}
.box{fill:#f6f8fa;stroke:#818b98}
.part{fill:#fff;stroke:#818b98}
.hot{fill:#ddf4ff;stroke:#0969da}
.good{stroke:#1a7f37;stroke-width:5;fill:none}
.bad{stroke:#cf222e;stroke-width:3;fill:none;stroke-dasharray:8 5}
.line{stroke:#818b98;stroke-width:1.5;fill:none}
.goodtext{fill:#1a7f37;font-weight:bold}
.badtext{fill:#cf222e}
@media(prefers-color-scheme:dark){
svg{background:#0d1117;color:#e6edf3}
.small{fill:#9198a1}
.code{fill:#79c0ff}
.box{fill:#151b23;stroke:#656c76}
.part{fill:#0d1117;stroke:#656c76}
.hot{fill:#0c2d6b;stroke:#4493f8}
.good{stroke:#3fb950}
.bad{stroke:#f85149}
.goodtext{fill:#3fb950}
.badtext{fill:#f85149}
}
</style>
<defs>
<marker id="good" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="3.2" markerHeight="3.2" orient="auto"><path d="M0 0L10 5L0 10z" fill="#1a7f37"/></marker>
<marker id="bad" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="4.5" markerHeight="4.5" orient="auto"><path d="M0 0L10 5L0 10z" fill="#cf222e"/></marker>
<marker id="line" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#818b98"/></marker>
</defs>
`

// canvas collects a drawing.
type canvas struct {
	strings.Builder
	width, height int
}

func (c *canvas) box(class string, x, y, w, h int) {
	fmt.Fprintf(c, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", class, x, y, w, h)
}

// text writes lines below each other, the first one's baseline at y.
func (c *canvas) text(class, anchor string, x, y int, lines ...string) {
	for i, line := range lines {
		fmt.Fprintf(c, `<text class="%s" text-anchor="%s" x="%d" y="%d">%s</text>`+"\n", class, anchor, x, y+17*i, html.EscapeString(line))
	}
}

// arrow draws a path in SVG's notation, its end pointed.
func (c *canvas) arrow(class, path string) {
	fmt.Fprintf(c, `<path class="%s" marker-end="url(#%s)" d="%s"/>`+"\n", class, class, path)
}

func itoa(n int) string { return strconv.Itoa(n) }

// svg is the whole picture; alt says in words what it shows.
func (c *canvas) svg(alt string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img">`+"\n<title>%[3]s</title>\n", c.width, c.height, html.EscapeString(alt)) +
		style + c.String() + "</svg>\n"
}

// Pictures are all of them, by the name of the file in docs/pictures.
func Pictures() map[string]string {
	return map[string]string{"path.svg": pathPicture(), "house.svg": housePicture(), "write.svg": writePicture()}
}
