"""Plugins in a conftest that may hide a fault: every hook with every action, and what real ones do."""

from __future__ import annotations

HOOKS = {
    "pytest_configure": "config",
    "pytest_unconfigure": "config",
    "pytest_sessionstart": "session",
    "pytest_sessionfinish": "session",
    "pytest_collection": "session",
    "pytest_collection_modifyitems": "session, config, items",
    "pytest_collection_finish": "session",
    "pytest_itemcollected": "item",
    "pytest_runtestloop": "session",
    "pytest_runtest_protocol": "item",
    "pytest_runtest_logstart": "nodeid",
    "pytest_runtest_setup": "item",
    "pytest_runtest_call": "item",
    "pytest_runtest_teardown": "item",
    "pytest_pyfunc_call": "pyfuncitem",
    "pytest_runtest_makereport": "item, call",
    "pytest_runtest_logreport": "report",
    "pytest_runtest_logfinish": "nodeid",
    "pytest_report_teststatus": "report, config",
    "pytest_report_header": "config",
    "pytest_report_collectionfinish": "config",
    "pytest_terminal_summary": "terminalreporter",
    "pytest_exception_interact": "node, report",
    "pytest_fixture_setup": "fixturedef",
    "pytest_fixture_post_finalizer": "fixturedef",
    "pytest_warning_recorded": "nodeid",
    "pytest_keyboard_interrupt": "excinfo",
    "pytest_internalerror": "excinfo",
    "pytest_cmdline_main": "config",
    "pytest_addoption": "parser",
    "pytest_generate_tests": "metafunc",
    "pytest_make_parametrize_id": "config",
    "pytest_pycollect_makeitem": "collector",
    "pytest_collect_file": "file_path",
    "pytest_ignore_collect": "collection_path",
    "pytest_collectreport": "report",
    "pytest_make_collect_report": "collector",
    "pytest_report_to_serializable": "config, report",
    "pytest_report_from_serializable": "config, data",
    "pytest_xdist_setupnodes": "config",
    "pytest_configure_node": "node",
    "pytest_testnodeready": "node",
    "pytest_testnodedown": "node",
    "pytest_xdist_node_collection_finished": "node",
    "pytest_xdist_make_scheduler": "config",
    "pytest_handlecrashitem": "crashitem",
    "pytest_anubis_verdict": "config",
}
"""Hook -> arguments that its implementations here take."""

ACTIONS = {
    "raises": "raise RuntimeError('a plugin of ours')",
    "os._exit(0)": "os._exit(0)",
    "sys.exit(0)": "sys.exit(0)",
    "pytest.exit with 0": "pytest.exit('enough', returncode=0)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "True": "return True",
    "0": "return 0",
    "empty list": "return []",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}
"""What an implementation may do."""

OWN_RESULT = ("pytest_runtest_makereport", "pytest_pyfunc_call", "pytest_runtest_protocol")
"""Hooks that make the result of a plain check when they return one."""

CONFTESTS = {
    "reports made passed": (
        "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    result = yield\n    result.get_result().outcome = 'passed'\n",
        True,
    ),
    "reports made skipped": (
        "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    result = yield\n    report = result.get_result()\n"
        "    if report.failed: report.outcome, report.longrepr = 'skipped', ('x', 1, 'odd')\n",
        True,
    ),
    "logged reports made passed": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_logreport(report):\n"
        "    report.outcome = 'passed'\n",
        True,
    ),
    "properties taken away": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_logreport(report):\n"
        "    report.user_properties = []\n    report.sections = []\n    report.__dict__.pop('anubis', 0)\n",
        False,
    ),
    "exit status set": (
        "@pytest.hookimpl(trylast=True)\ndef pytest_sessionfinish(session):\n"
        "    session.exitstatus = 0\n",
        False,
    ),
    "exit status set at last": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_sessionfinish(session):\n"
        "    result = yield\n    session.exitstatus = 0\n    return result\n",
        False,
    ),
    "command returns 0": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_cmdline_main(config):\n"
        "    yield\n    return 0\n",
        False,
    ),
    "failures forgotten": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish(session):\n"
        "    session.testsfailed = 0\n",
        False,
    ),
    "items dropped": (
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [i for i in items if not i.name.startswith('FAULTY')]\n",
        True,
    ),
    "items dropped at last": (
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_collection_modifyitems(items):\n"
        "    yield\n    items[:] = [i for i in items if not i.name.startswith('FAULTY')]\n",
        True,
    ),
    "items deselected": (
        "def pytest_collection_modifyitems(config, items):\n"
        "    gone = [i for i in items if i.name.startswith('FAULTY')]\n"
        "    config.hook.pytest_deselected(items=gone)\n"
        "    items[:] = [i for i in items if i not in gone]\n",
        True,
    ),
    "all items dropped": ("def pytest_collection_modifyitems(items):\n    items.clear()\n", True),
    "items reversed": ("def pytest_collection_modifyitems(items):\n    items.reverse()\n", False),
    "items twice": ("def pytest_collection_modifyitems(items):\n    items += items[:]\n", False),
    "items shuffled": (
        "def pytest_collection_modifyitems(items):\n    random.shuffle(items)\n",
        False,
    ),
    "all xfail": (
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items: item.add_marker(pytest.mark.xfail(reason='known'))\n",
        True,
    ),
    "all xfail, not run": (
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items: item.add_marker(pytest.mark.xfail(run=False, reason='known'))\n",
        True,
    ),
    "all skipped": (
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items: item.add_marker(pytest.mark.skip(reason='odd'))\n",
        True,
    ),
    "skipped at setup": ("def pytest_runtest_setup(item):\n    pytest.skip('odd')\n", True),
    "xfail at setup": ("def pytest_runtest_setup(item):\n    pytest.xfail('odd')\n", True),
    "faulty test swallowed": (
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_protocol(item):\n"
        "    return True if item.name.startswith('FAULTY') else None\n",
        False,
    ),
    "function replaced": (
        "def pytest_itemcollected(item):\n"
        "    if item.name.startswith('FAULTY'): item.obj = lambda **_: None\n",
        True,
    ),
    "runtest replaced": (
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items: item.runtest = lambda: None\n",
        True,
    ),
    "ids changed": (
        "def pytest_collection_modifyitems(items):\n    for item in items: item._nodeid += '@x'\n",
        False,
    ),
    "run again until it passes": (
        "from _pytest.runner import runtestprotocol\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    hook = item.ihook\n"
        "    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n"
        "    for _ in range(2):\n"
        "        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    for report in reports: hook.pytest_runtest_logreport(report=report)\n"
        "    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)\n"
        "    return True\n",
        False,
    ),
    "reruns reported": (
        "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    result = yield\n    report = result.get_result()\n"
        "    if report.failed: report.outcome = 'rerun'\n",
        True,
    ),
    "xfail in reports": (
        "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    result = yield\n    report = result.get_result()\n"
        "    if report.failed: report.outcome, report.wasxfail = 'skipped', 'known'\n",
        True,
    ),
    "stops early": (
        "def pytest_runtest_logfinish(nodeid):\n    pass\n"
        "@pytest.fixture(autouse=True)\ndef stop(request):\n    yield\n"
        "    request.session.shouldstop = 'enough'\n",
        False,
    ),
    "shouldfail": (
        "@pytest.fixture(autouse=True)\ndef stop(request):\n    yield\n"
        "    request.session.shouldfail = 'enough'\n",
        False,
    ),
    "thread that prints": (
        "def chatter():\n    while True:\n        print('x' * 100); time.sleep(0.001)\n"
        "threading.Thread(target=chatter, daemon=True).start()\n",
        False,
    ),
    "stdout replaced": (
        "import io\n@pytest.fixture(autouse=True)\ndef quiet():\n    sys.stdout = io.StringIO()\n    yield\n",
        False,
    ),
    "stdout closed": ("def pytest_sessionstart(session):\n    sys.stdout.close()\n", False),
    "json patched": ("json.dumps = lambda *a, **k: '{}'\n", False),
    "json.loads patched": ("json.loads = lambda *a, **k: {}\n", False),
    "clock is stopped": ("time.time = lambda: 0.0\n", False),
    "clock runs backwards": (
        "_begin = time.monotonic()\ntime.time = lambda: 2e9 - (time.monotonic() - _begin)\n",
        False,
    ),
    "monotonic is stopped": ("time.monotonic = lambda: 1.0\n", False),
    "sleep does nothing": ("time.sleep = lambda s: None\n", False),
    "all is close": ("math.isclose = lambda *a, **k: True\nmath.isnan = lambda x: False\n", False),
    "sorted patched": ("builtins.sorted = lambda x, **k: list(x)\n", False),
    "warnings are errors": (
        "def pytest_configure(config):\n    config.addinivalue_line('filterwarnings', 'error')\n",
        False,
    ),
    "signals ignored": (
        "for number in (1, 2, 3, 15): signal.signal(number, signal.SIG_IGN)\n",
        False,
    ),
    "children ignored": ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n", False),
    "recursion limited": ("sys.setrecursionlimit(120)\n", False),
    "files limited": ("resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n", False),
    "descriptors limited": ("resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n", False),
    "numpy missing": ("sys.modules['numpy'] = None\n", False),
    "sqlite missing": ("sys.modules['sqlite3'] = None\n", False),
    "option switched off": (
        "def pytest_configure(config):\n    config.option.anubis = False\n",
        False,
    ),
    "option switched off early": (
        "def pytest_load_initial_conftests(early_config):\n    early_config.option.anubis = False\n"
        "def pytest_addoption(parser):\n    sys.argv[:] = [a for a in sys.argv if 'anubis' not in a]\n",
        False,
    ),
    "plugins unregistered": (
        "def pytest_collection(session):\n    manager = session.config.pluginmanager\n"
        "    for name, plugin in list(manager.list_name_plugin()):\n"
        "        if 'judge' in name or 'run' in name: manager.unregister(plugin)\n",
        False,
    ),
    "at exit 0": ("atexit.register(os._exit, 0)\n", False),
    "conftest ends the process": ("os._exit(0)\n", False),
    "conftest sys.exit(0)": ("sys.exit(0)\n", False),
    "conftest skips": ("pytest.skip('odd', allow_module_level=True)\n", False),
    "conftest pytest.exit": ("pytest.exit('enough', returncode=0)\n", False),
    "directory changed": ("def pytest_sessionstart(session):\n    os.chdir('/tmp')\n", False),
    "fixture replaced": (
        "@pytest.fixture\ndef anubis_metric():\n"
        "    class Nothing:\n        def record(self, *a, **k): return ()\n    return Nothing()\n",
        False,
    ),
    "fixture raises": (
        "@pytest.fixture(autouse=True)\ndef odd(request):\n"
        "    if request.node.name.startswith('FAULTY'): raise RuntimeError\n",
        False,
    ),
    "random seeded": ("random.seed(1)\n", False),
    "tests at once in threads": (
        "def pytest_runtestloop(session):\n"
        "    if not hasattr(session.config, 'workerinput'): return None\n"
        "    for item in session.items:\n"
        "        t = threading.Thread(target=lambda: item.config.hook.pytest_runtest_protocol("
        "item=item, nextitem=None)); t.start(); t.join()\n    return True\n",
        False,
    ),
}
"""Plugin -> its text, and whether it takes the result of a plain check into its own hands."""
