"""Java is started directly, with the options of Spark's own scripts, or by the scripts where a setting needs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from conformance.spark.find_java import find_java
from conformance.spark.gateway import Gateway, JavaEnded, can_start_directly, class_path, module_options, start_java
from conformance.spark.session import open_session

HOME = Path(pyspark.__file__).parent


@pytest.mark.long
def test_a_session_starts_without_sparks_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.java_gateway.Popen", None)  # what would start `spark-submit`
    with open_session("local[1]") as session:
        assert session.sql("SELECT upper('a') AS a").toArrow().to_pylist() == [{"a": "A"}]
        assert session.sparkContext.parallelize([1, 2], 1).map(lambda one: one + 1).collect() == [
            2,
            3,
        ]  # by Python's workers
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ


def test_java_gets_the_options_that_sparks_launcher_gives_it_but_for_two(tmp_path: Path) -> None:
    words = [
        find_java({}),
        "-cp",
        f"{HOME}/jars/*",
        "org.apache.spark.launcher.Main",
        "org.apache.spark.deploy.SparkSubmit",
    ]
    environment = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "PATH": os.environ["PATH"]}
    done = subprocess.run([*words, "pyspark-shell"], env=environment, capture_output=True, check=True)
    given = {
        one for one in done.stdout.decode().split("\0") if one.startswith(("--", "-D", "-XX")) and "derby" not in one
    }
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in given
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.words"\n')
    java.chmod(0o755)
    with start_java(java, [], tmp_path, quiet=True) as gateway:
        gateway.process.wait()
    got = (tmp_path / "java.words").read_text().splitlines()
    assert set(module_options(HOME)) <= given
    two = {"--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"}
    assert given - set(got) == two
    assert two.isdisjoint(got)


def test_the_class_path_has_every_jar_but_the_one_of_machine_learning() -> None:
    jars = [Path(one) for one in class_path(HOME).split(":")]
    (left_out,) = (HOME / "jars").glob("spark-mllib_*.jar")
    assert sorted([*jars, left_out]) == sorted((HOME / "jars").glob("*.jar"))


@pytest.mark.parametrize(
    ("master", "conf", "environ"),
    [
        ("spark://127.0.0.1:7077", {}, {}),
        ("local[2]", {"spark.driver.extraClassPath": "a.jar"}, {}),
        ("local[2]", {"spark.jars.packages": "a:b:1"}, {}),
        ("local[2]", {"spark.submit.deployMode": "client"}, {}),
        ("local[2]", {"spark.archives": "a.zip"}, {}),
        ("local[2]", {"spark.files": "a.txt"}, {}),
        ("local[2]", {"spark.pyspark.python": "python3"}, {}),
        ("local[2]", {"spark.driver.memory": "2048"}, {}),
        ("local[2]", {}, {"SPARK_CONF_DIR": "/etc/spark"}),
        ("local[2]", {}, {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}),
        ("local[2]", {}, {"PYSPARK_GATEWAY_PORT": "1"}),
        ("local[2]", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
        ("local[2]", {}, {"YARN_CONF_DIR": "/etc/hadoop"}),
    ],
)
def test_settings_that_only_sparks_scripts_handle_need_them(
    master: str, conf: dict[str, str], environ: dict[str, str]
) -> None:
    assert not can_start_directly(master, conf, environ)


def test_other_settings_let_java_be_started_directly() -> None:
    conf = {"spark.driver.memory": "900m", "spark.sql.shuffle.partitions": "3"}
    environ = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "here", "SPARK_LOCAL_DIRS": "/tmp", "HOME": "/"}
    assert can_start_directly("local[2]", conf, environ)
    assert can_start_directly("local", {}, {})


def test_a_java_that_exits_before_spark_starts_is_an_error(tmp_path: Path) -> None:
    with (
        start_java(Path(sys.executable), [], tmp_path, quiet=True) as gateway,
        pytest.raises(JavaEnded, match="before Spark had started"),
    ):
        gateway.connect()


def test_java_ends_with_the_block_even_without_a_connection(tmp_path: Path) -> None:
    def interrupt(running: Gateway) -> None:
        assert running.process.poll() is None
        raise KeyboardInterrupt

    with start_java(find_java({}), ["-Xmx256m"], tmp_path, quiet=True) as gateway:
        assert gateway.process.poll() is None
    assert gateway.process.returncode is not None
    with pytest.raises(KeyboardInterrupt), start_java(find_java({}), ["-Xmx256m"], tmp_path, quiet=True) as gateway:
        interrupt(gateway)
    assert gateway.process.returncode is not None
