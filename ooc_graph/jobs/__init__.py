"""Job files: what is to be built, searched, validated and exported, and runs that go on."""
