module github.com/echoseal/echoseal/examples

go 1.26.0

require (
	github.com/echoseal/echoseal v0.1.0
	github.com/echoseal/echoseal/middleware/gosdk v0.1.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
)
