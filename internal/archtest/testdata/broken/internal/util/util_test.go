package util_test

func Exported() {}
