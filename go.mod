module github.com/echoseal/echoseal

go 1.26.0
