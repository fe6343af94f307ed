"""SummaryWriter: everything a training run shows in TensorBoard, written as event files.

Enters: tags with values, and the step they belong to. Leaves: event files in a folder, which TensorBoard reads while
they grow. Neither TensorBoard nor protobuf is needed to write, nor `onnx` to read ONNX files.
"""

from __future__ import annotations

import os
import time
from typing import Any

from .records import EventFileWriter
from .wire import Message

__all__ = ["FileWriter", "SummaryWriter"]


def _make() -> Any:
    from . import summary  # noqa: PLC0415 - needs NumPy, and only when something is written

    return summary


class FileWriter:
    """Events of one folder."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Message, step: Any = None, walltime: float | None = None) -> None:
        """Append an event; its time is now unless given."""
        event.fields["wall_time"] = time.time() if walltime is None else walltime
        if step is not None:
            event.fields["step"] = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Message, global_step: Any = None, walltime: float | None = None) -> None:
        """Append a summary."""
        self.add_event(Message("Event", summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: tuple[Message, Message], walltime: float | None = None) -> None:
        """Append a graph and its run metadata."""
        graph, metadata = (m.SerializeToString() for m in graph_profile)
        self.add_event(Message("Event", graph_def=graph), None, walltime)
        self.add_event(
            Message("Event", tagged_run_metadata=Message("TaggedRunMetadata", tag="step1", run_metadata=metadata)),
            None,
            walltime,
        )

    def add_onnx_graph(self, graph: Message, walltime: float | None = None) -> None:
        """Append a graph that was read from an ONNX file."""
        self.add_event(Message("Event", graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Start a new file if this one is closed."""
        self.event_writer.reopen()


class SummaryWriter:
    """`add_*` calls append to event files in `log_dir`, by default a new folder below ./runs."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket  # noqa: PLC0415 - only for the default name
            from datetime import datetime  # noqa: PLC0415

            log_dir = os.path.join(
                "runs", f"{datetime.now().strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
            )
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._embeddings = ""
        self._get_file_writer()
        positive = [1e-12]   # TensorFlow's bins: each a tenth wider, up to 1e20
        while positive[-1] * 1.1 < 1e20:
            positive.append(positive[-1] * 1.1)
        self.default_bins = [-v for v in reversed(positive)] + [0] + positive

    def _get_file_writer(self) -> FileWriter:
        """The writer of `log_dir`, opened again if it was closed."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                started = 1
                self.file_writer.add_event(Message("Event", step=self.purge_step, file_version="brain.Event:2"))
                self.file_writer.add_event(
                    Message("Event", step=self.purge_step, session_log=Message("SessionLog", status=started))
                )
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder event files go to."""
        return self.log_dir

    def _add(self, summary: Message, global_step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number."""
        self._add(
            _make().scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision),
            global_step,
            walltime,
        )

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Several numbers in one chart: each name gets a folder, and so a line, of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            place = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if place not in self.all_writers:
                self.all_writers[place] = FileWriter(place, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[place].add_summary(_make().scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """A whole tensor."""
        self._add(_make().tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread; `bins` as NumPy's histogram takes them, or TensorFlow's growing ones."""
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(_make().histogram(tag, values, bins, max_bins=max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,  # noqa: A002
        max: float,  # noqa: A002
        num: int,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("add_histogram_raw: expected as many bucket_counts as bucket_limits (their len differs).")
        self._add(
            _make().histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts),
            global_step,
            walltime,
        )

    def add_hparams(
        self,
        hparam_dict: dict,
        metric_dict: dict,
        hparam_domain_discrete: dict | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Hyperparameters of a run and the numbers it reached, in a folder of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("add_hparams: expected a dictionary as hparam_dict and as metric_dict.")
        result = _make().hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(
            log_dir=os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        ) as run:
            for summary in result:
                run._add(summary, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    # --- pictures, sounds, words --------------------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture."""
        self._add(_make().image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures in a grid."""
        self._add(_make().image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None,
                             walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:
        """A picture with boxes [N, 4] (left, top, right, bottom), named if there is a label for each."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        self._add(
            _make().image_boxes(tag, img_tensor, box_tensor, rescale=rescale, dataformats=dataformats, labels=labels),
            global_step,
            walltime,
        )

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A matplotlib figure, or a list of them."""
        from .images import figure_to_image  # noqa: PLC0415

        self.add_image(
            tag,
            figure_to_image(figure, close),
            global_step,
            walltime,
            dataformats="NCHW" if isinstance(figure, list) else "CHW",
        )

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Moving pictures [N, T, C, H, W]."""
        self._add(_make().video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Sound, as samples in [-1, 1]."""
        self._add(_make().audio(tag, snd_tensor, sample_rate=sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Words."""
        self._add(_make().text(tag, text_string), global_step, walltime)

    # --- models -------------------------------------------------------------------------------------------------------

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The ops one run of a module calls."""
        from .graph import graph  # noqa: PLC0415

        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of an ONNX file."""
        from .onnx_graph import load_onnx_graph  # noqa: PLC0415

        self._get_file_writer().add_onnx_graph(load_onnx_graph(prototxt))

    @staticmethod
    def _encode(rawstr: str) -> str:
        for c in "%/\\":
            rawstr = rawstr.replace(c, f"%{ord(c):02x}")
        return rawstr

    def add_embedding(self, mat: Any, metadata: list | None = None, label_img: Any = None,
                      global_step: int | None = None, tag: str = "default",
                      metadata_header: list[str] | None = None) -> None:
        """Vectors for the projector, with a label or a small picture for each."""
        from . import embedding  # noqa: PLC0415
        from .images import make_np  # noqa: PLC0415

        matrix, global_step = make_np(mat), 0 if global_step is None else global_step
        assert matrix.ndim == 2, "mat: expected 2 dimensions, one row per data point"
        assert metadata is None or matrix.shape[0] == len(metadata), "#labels should equal with #data points"
        assert label_img is None or matrix.shape[0] == label_img.shape[0], "#images should equal with #data points"
        folder = self._get_file_writer().get_logdir()
        subdir = f"{str(global_step).zfill(5)}/{self._encode(tag)}"
        save_path = os.path.join(folder, subdir)
        if os.path.isdir(save_path):
            print("add_embedding: the folder exists already. A global_step of its own keeps embeddings apart.")
        elif os.path.exists(save_path):
            raise NotADirectoryError(f"add_embedding: {save_path} is a file, expected a folder.")
        os.makedirs(save_path, exist_ok=True)
        if metadata is not None:
            embedding.make_tsv(metadata, save_path, metadata_header=metadata_header)
        if label_img is not None:
            embedding.make_sprite(label_img, save_path)
        embedding.make_mat(matrix, save_path)
        self._embeddings += embedding.embedding_lines(metadata is not None, label_img, subdir, global_step, tag)
        with open(os.path.join(folder, "projector_config.pbtxt"), "wb") as f:
            f.write(self._embeddings.encode())

    # --- curves, layouts, meshes --------------------------------------------------------------------------------------

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:
        """Precision against recall, from labels (0 or 1) and predicted probabilities."""
        self._add(_make().pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
                         true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
                         global_step: Any = None, num_thresholds: int = 127, weights: Any = None,
                         walltime: float | None = None) -> None:
        """Precision against recall, counted already."""
        counts = (
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
        )
        self._add(_make().pr_curve_raw(tag, *counts, num_thresholds, weights), global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A scalar between two others."""
        assert len(tags) == 3, f"Expected 3 tags, got {len(tags)}."
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: dict[str, dict[str, list]]) -> None:
        """Charts of scalars: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(_make().custom_scalars(layout))

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: dict | None = None,
                 global_step: Any = None, walltime: float | None = None) -> None:
        """Points, or a surface: vertices, faces and colours, each [batch, count, 3]."""
        self._add(_make().mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # --- the files ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits and close the files; another `add_*` opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
