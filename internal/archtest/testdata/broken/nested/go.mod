module nested.example
