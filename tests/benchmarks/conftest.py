"""The tables of the benchmarks are shown after the tests."""


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in reports:
        for _, line in report.user_properties:
            terminalreporter.write_line(line)
