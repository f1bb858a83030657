module trade-thesis.example/go

go 1.23
