module muster.dev/benchmarks/empty-webhook

go 1.24
